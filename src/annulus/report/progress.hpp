// Shows, at a terminal or in a job's log, how much of the work is done. Only rank 0 prints, on stderr.
//
//   terminal   annulus: [##########..............]  42 %  hop 1 of 3, 84.8 GFLOP/s, 0:12 left      one line, redrawn
//   log        annulus:  42 %  hop 1 of 3, 84.8 GFLOP/s, 0:12 left                                 a line now and then
//
// Work that takes less than a second prints nothing. A log gets a line every ten seconds at first. Later it gets a line
// whenever the elapsed time has grown by two per cent since the last line. So the log has about 150 lines after an
// hour, and 310 after a day.
#pragma once

#include <functional>
#include <string>

namespace annulus::report {

class ProgressLine {
 public:
  /// The amount of work: `total` in some unit, such as "GFLOP". With a total of 0 the line shows no rate.
  struct Work {
    double total = 0;
    std::string unit;
  };

  /// `speaks`: true on rank 0, which prints. `begun`: the fraction of the work that earlier launches have done.
  ProgressLine(bool speaks, Work work, double begun = 0);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Shows that the fraction `share` (0 ... 1) of the whole work is done; `where` says what is done now.
  void show(double share, const std::string& where);
  /// Removes the line from a terminal. Call it before something else is printed.
  void clear();

  /// show() as a function that a pass can call.
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

/// The text of the line, without the bar. The work from fraction `begun` to fraction `share` took `seconds`.
/// Worked example: 0.42 of 240 GFLOP in 12 s: " 42 %  hop 1 of 3, 8.4 GFLOP/s, 0:17 left".
std::string progress_text(double share, double begun, double seconds, const ProgressLine::Work& work,
                          const std::string& where);
/// "[######........]", with `width` characters between the brackets.
std::string progress_bar(double share, int width);
/// Seconds as text: "0:12", "1:02:03", "3 days".
std::string duration_text(double seconds);

}  // namespace annulus::report
