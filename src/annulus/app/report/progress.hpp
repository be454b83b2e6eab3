// Lets a person at the terminal (or reading a job's log) see that work goes on.
#pragma once

#include <string>

namespace annulus::app {

/// Lines like "annulus:  42 %  hop 1 of 3" on stderr: at most every 0.2 s over one line of a terminal, every 10 s in a
/// log. Short work prints nothing.
class ProgressLine {
 public:
  explicit ProgressLine(bool speaks);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(double share, const std::string& place);

 private:
  bool speaks_;
  bool terminal_;
  bool shown_ = false;
  double next_;
};

}  // namespace annulus::app
