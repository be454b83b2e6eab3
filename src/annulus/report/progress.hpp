// How far a verb has come, for a person at a terminal and for readers of a job's log; on stderr, from rank 0.
//
//   terminal   annulus: [##########..............]  42 %  hop 1 of 3, 84.8 GFLOP/s, 0:12 left      one line, redrawn
//   log        annulus:  42 %  hop 1 of 3, 84.8 GFLOP/s, 0:12 left                                 a line now and then
//
// What is done within a second prints nothing. A log gets a line every ten seconds at first, later one whenever another
// two per cent of the time have passed: an hour leaves a hundred lines, a day two hundred.
#pragma once

#include <functional>
#include <string>

namespace annulus::report {

class ProgressLine {
 public:
  /// What there is to do: `total` in some unit, such as "GFLOP". With a total of 0 the line shows no rate.
  struct Work {
    double total = 0;
    std::string unit;
  };

  /// `speaks`: rank 0 does. `begun` is the share that earlier launches have done.
  ProgressLine(bool speaks, Work work, double begun = 0);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// `share` of the whole work is done, 0 ... 1; `where` says what is being done.
  void show(double share, const std::string& where);
  /// Something else is to be printed: takes the line off a terminal.
  void clear();

  /// show() as passes call it.
  std::function<void(double share, const std::string& where)> shown() {
    return [this](double share, const std::string& where) { show(share, where); };
  }

 private:
  const bool speaks_, terminal_;
  const Work work_;
  const double begun_, start_;
  double next_;
  bool shown_ = false;
};

/// The words of the line, without the bar: `seconds` were spent on the share from `begun` on.
/// Worked example: 0.42 of 240 GFLOP in 12 s: " 42 %  hop 1 of 3, 8.4 GFLOP/s, 0:17 left".
std::string progress_text(double share, double begun, double seconds, const ProgressLine::Work& work,
                          const std::string& where);
/// "[######........]", `width` characters inside.
std::string progress_bar(double share, int width);
/// "0:12", "1:02:03", "3 days".
std::string duration_text(double seconds);

}  // namespace annulus::report
