//===- Progress.cpp - What training shows while it runs -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Progress.h"

#include "Format.h"
#include "optimus-runtime/Status.h"
#include "optimus-runtime/World.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <sys/ioctl.h>
#include <unistd.h>

using optrt::concat;

namespace optimus_run {
namespace {

constexpr std::chrono::seconds kLineInterval(5);
constexpr std::chrono::milliseconds kRedrawInterval(100);
constexpr int kBarWidth = 20;
constexpr const char *kEraseLine = "\r\x1b[K";

/// What a process writes to, as the kernel names it; empty where it is not to
/// be known.
std::string outputOf(const std::string &process) {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/" + process + "/fd/1", error)
      .string();
}

std::string parentOf(const std::string &process) {
  std::ifstream status("/proc/" + process + "/status");
  for (std::string line; std::getline(status, line);)
    if (std::string_view(line).substr(0, 6) == "PPid:\t")
      return line.substr(6);
  return "";
}

/// Open MPI gives rank 0 a terminal of its own and hands on what is written
/// there, to wherever mpirun's output goes: the output of the first process
/// above with another output than this one.
bool isLauncherOnTerminal() {
  const std::string own = outputOf("self");
  std::string process = parentOf("self"), output = own;
  while (output == own && process.size() && process != "0") {
    output = outputOf(process);
    process = parentOf(process);
  }
  return output.starts_with("/dev/pts/") || output.starts_with("/dev/tty") ||
         output == "/dev/console";
}

/// Whether standard output is a terminal on which a line can be written again.
bool canRewrite() {
  const char *kind = std::getenv("TERM");
  return isatty(STDOUT_FILENO) && kind && *kind &&
         std::strcmp(kind, "dumb") != 0 &&
         (!optrt::startedByMpirun() || isLauncherOnTerminal());
}

std::size_t terminalColumns() {
  winsize size;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    return 80;
  return size.ws_col - 1;
}

} // namespace

std::string progressLine(const StepReport &report, int64_t firstStep,
                         int64_t lastStep, double secondsLeft,
                         std::size_t columns) {
  int64_t done = report.step - firstStep + 1;
  int64_t all = lastStep - firstStep + 1;
  int filled = static_cast<int>(kBarWidth * done / all);
  std::string bar = concat("[", std::string(filled, '#'),
                           std::string(kBarWidth - filled, '.'), "] ");
  int width = static_cast<int>(std::to_string(lastStep).size());
  std::string step =
      format("%*lld/%lld", width, static_cast<long long>(report.step),
             static_cast<long long>(lastStep));
  std::string loss = format("loss %.6f", report.loss);
  std::string norm = format("norm %.4f", report.gradNorm);
  std::string rate = format("lr %.2e", report.lr);
  std::string time = format("%.2f ms", report.milliseconds);
  std::string speed = format("%.0f tok/s", report.tokensPerSecond);
  std::string left = "ETA " + formatDuration(secondsLeft);
  const std::string shortLoss = format("loss %.4g", report.loss);
  auto join = [](std::initializer_list<std::string> parts) {
    std::string line;
    for (const std::string &part : parts)
      line += concat(line.empty() ? "" : " | ", part);
    return line;
  };
  for (const std::string &line : std::initializer_list<std::string>{
           bar + join({step, loss, norm, rate, time, speed, left}),
           join({step, loss, norm, rate, time, speed, left}),
           join({step, loss, norm, rate, speed, left}),
           join({step, loss, norm, speed, left}),
           join({step, loss, speed, left}), join({step, loss, left}),
           join({step, shortLoss, left}), join({step, left}), left})
    if (line.size() <= columns)
      return line;
  return left.substr(0, columns);
}

Progress::Progress(bool speaks, int64_t firstStep, int64_t lastStep,
                   const std::string &name)
    : speaks(speaks), terminal(name.empty() && canRewrite()),
      prefix(name.empty() ? "" : name + ": "), firstStep(firstStep),
      lastStep(lastStep), start(std::chrono::steady_clock::now()) {}

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

  if (!terminal) {
    int width = static_cast<int>(std::to_string(lastStep).size());
    std::printf("%sstep %*lld/%lld | loss %.6f | norm %.4f | lr %.2e | %.2f ms "
                "| %.0f tok/s\n",
                prefix.c_str(), width, static_cast<long long>(report.step),
                static_cast<long long>(lastStep), report.loss, report.gradNorm,
                report.lr, report.milliseconds, report.tokensPerSecond);
    std::fflush(stdout);
    return;
  }
  double done = static_cast<double>(report.step - firstStep + 1);
  double elapsed = std::chrono::duration<double>(now - start).count();
  double left = elapsed / done * static_cast<double>(lastStep - report.step);
  // A line that wraps cannot be rewritten.
  std::string line =
      progressLine(report, firstStep, lastStep, left, terminalColumns());
  std::printf("%s%s", kEraseLine, line.c_str());
  std::fflush(stdout);
  lineIsOpen = true;
}

void Progress::note(const std::string &text) {
  if (!speaks)
    return;
  std::printf("%s%s%s\n", lineIsOpen ? kEraseLine : "", prefix.c_str(),
              text.c_str());
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
  std::fprintf(stderr, "optimus-run: warning: %s%s\n", prefix.c_str(),
               text.c_str());
}

} // namespace optimus_run
