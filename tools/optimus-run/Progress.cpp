//===- Progress.cpp - What training shows while it runs -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Progress.h"

#include "Format.h"

#include <algorithm>
#include <cstdio>
#include <sys/ioctl.h>
#include <unistd.h>

namespace optimus_run {
namespace {

constexpr std::chrono::seconds kLineInterval(5);
constexpr std::chrono::milliseconds kRedrawInterval(100);
constexpr int kBarWidth = 20;
constexpr const char *kEraseLine = "\r\x1b[K";

std::size_t terminalColumns() {
  winsize size;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    return 80;
  return size.ws_col - 1;
}

} // namespace

Progress::Progress(bool speaks, int64_t firstStep, int64_t lastStep)
    : speaks(speaks), terminal(isatty(STDOUT_FILENO) != 0),
      firstStep(firstStep), lastStep(lastStep),
      start(std::chrono::steady_clock::now()) {}

Progress::~Progress() {
  if (lineIsOpen)
    std::printf("\n");
  std::fflush(stdout);
}

void Progress::step(const StepReport &report) {
  if (!speaks)
    return;
  auto now = std::chrono::steady_clock::now();
  bool mustShow = report.step == firstStep || report.step == lastStep;
  // About twenty lines for a short run, one every few seconds for a long one.
  int64_t stride = (lastStep - firstStep + 20) / 20;
  bool due = terminal
                 ? now - lastLine >= kRedrawInterval
                 : now - lastLine >= kLineInterval || report.step % stride == 0;
  if (!mustShow && !due)
    return;
  lastLine = now;

  int width = static_cast<int>(std::to_string(lastStep).size());
  std::string numbers = format(
      "loss %.6f | norm %.4f | lr %.2e | %.2f ms | %.0f tok/s", report.loss,
      report.gradNorm, report.lr, report.milliseconds, report.tokensPerSecond);
  if (!terminal) {
    std::printf("step %*lld/%lld | %s\n", width,
                static_cast<long long>(report.step),
                static_cast<long long>(lastStep), numbers.c_str());
    std::fflush(stdout);
    return;
  }
  int64_t done = report.step - firstStep + 1;
  int64_t all = lastStep - firstStep + 1;
  int filled = static_cast<int>(kBarWidth * done / all);
  double elapsed = std::chrono::duration<double>(now - start).count();
  double left =
      elapsed / static_cast<double>(done) * static_cast<double>(all - done);
  std::string line = format(
      "[%s%s] %*lld/%lld | %s | ETA %s", std::string(filled, '#').c_str(),
      std::string(kBarWidth - filled, '.').c_str(), width,
      static_cast<long long>(report.step), static_cast<long long>(lastStep),
      numbers.c_str(), formatDuration(left).c_str());
  // A line that wraps cannot be rewritten: the bar goes first.
  std::size_t columns = terminalColumns();
  if (line.size() > columns)
    line.erase(0, kBarWidth + 3);
  if (line.size() > columns)
    line.resize(columns);
  std::printf("%s%s", kEraseLine, line.c_str());
  std::fflush(stdout);
  lineIsOpen = true;
}

void Progress::note(const std::string &text) {
  if (!speaks)
    return;
  std::printf("%s%s\n", lineIsOpen ? kEraseLine : "", text.c_str());
  lineIsOpen = false;
  std::fflush(stdout);
}

void Progress::warn(const std::string &text) {
  if (!speaks)
    return;
  if (lineIsOpen)
    std::printf("\n");
  lineIsOpen = false;
  std::fflush(stdout);
  std::fprintf(stderr, "optimus-run: warning: %s\n", text.c_str());
}

} // namespace optimus_run
