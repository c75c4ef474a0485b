//===- Program.cpp - Runs optimus-run and looks at the outcome ------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Program.h"

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

#ifdef __SANITIZE_THREAD__
// Neither libgomp nor oneDNN is instrumented: one thread a rank touches no
// OpenMP, and what oneDNN does inside is not ours to judge.
std::string prepare(const std::string &arguments) {
  bool hasThreads = arguments.find("--threads-per-rank") != std::string::npos;
  bool computes = arguments.starts_with("train ") ||
                  arguments.starts_with("eval ") ||
                  arguments.starts_with("verify ");
  return computes && !hasThreads ? arguments + " --threads-per-rank 1"
                                 : arguments;
}
const int environment =
    setenv("TSAN_OPTIONS", "suppressions=" OPTIMUS_TSAN_SUPPRESSIONS, 1);
#else
std::string prepare(const std::string &arguments) { return arguments; }
#ifdef __SANITIZE_ADDRESS__
// The leak checker crashes in the thread-local storage of libraries that were
// opened after threads had started, here libgomp.
#define SANITIZER_OPTIONS "intercept_tls_get_addr=0"
const int environment = setenv("ASAN_OPTIONS", SANITIZER_OPTIONS, 1);
#endif
#endif

std::string readAll(FILE *stream) {
  std::string text;
  std::array<char, 4096> buffer;
  while (std::size_t got = fread(buffer.data(), 1, buffer.size(), stream))
    text.append(buffer.data(), got);
  return text;
}

/// Negative for a process that a signal killed.
int exitCode(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

} // namespace

Outcome runShell(const std::string &script) {
  FILE *pipe = popen(script.c_str(), "r");
  if (!pipe)
    return {-1, "cannot start a shell"};
  Outcome outcome{0, readAll(pipe)};
  outcome.code = exitCode(pclose(pipe));
  return outcome;
}

Outcome runProgram(const std::string &arguments, const std::string &launcher) {
  return runShell(launcher + " " OPTIMUS_RUN " " + prepare(arguments) +
                  " 2>&1 </dev/null");
}

Outcome signalProgram(const std::string &arguments, int signal,
                      const std::string &file, const std::string &launcher,
                      const std::string &pidFile) {
  std::string command =
      launcher + " " OPTIMUS_RUN " " + prepare(arguments) + " 2>&1 </dev/null";
  int ends[2];
  if (pipe(ends) != 0)
    return {-1, "no pipe"};
  pid_t shell = fork();
  if (shell == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    // What started the tests may have some ignored, as & of a script does.
    for (int one :
         {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU})
      ::signal(one, SIG_DFL);
    // The shell becomes the program or its launcher.
    execl("/bin/sh", "sh", "-c", ("exec env " + command).c_str(), nullptr);
    _exit(127);
  }
  close(ends[1]);
  auto firstLine = [](const std::string &path) {
    std::ifstream stream(path);
    std::string line;
    return std::getline(stream, line) ? line : std::string();
  };
  auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (firstLine(file).empty() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  kill(pidFile.empty() ? shell : std::stoi(firstLine(pidFile)), signal);
  FILE *stream = fdopen(ends[0], "r");
  Outcome outcome{0, readAll(stream)};
  fclose(stream);
  int status = 0;
  waitpid(shell, &status, 0);
  outcome.code = exitCode(status);
  return outcome;
}

std::string mpirun(int ranks) {
  std::string command =
      "mpirun --allow-run-as-root --oversubscribe -n " + std::to_string(ranks);
#ifdef __SANITIZE_ADDRESS__
  // What Open MPI keeps until the end is no leak of ours.
  command = "ASAN_OPTIONS=" SANITIZER_OPTIONS ":detect_leaks=0 " + command;
#endif
  return command;
}

std::string failingAt(const std::string &launch) {
  return "OPTIMUS_DEVICE_CPU_LIBRARY=" OPTIMUS_HIDDEN_DEVICE
         " OPTIMUS_HIDDEN_FAIL=" +
         launch;
}

std::string toy(const std::string &name) {
  return OPTIMUS_TOYS "/" + name + ".so";
}

void ProgramTest::SetUp() {
  std::string pattern =
      (std::filesystem::temp_directory_path() / "optimus-run-XXXXXX").string();
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  dir = pattern;
  std::string text;
  uint32_t state = 7;
  // Letters that mostly follow one another in the alphabet: a bigram model
  // learns them.
  for (int i = 0; i != 1000; ++i) {
    state = state * 1664525u + 1013904223u;
    text += static_cast<char>(state >> 29 == 0 ? 'a' + (state >> 16) % 26
                                               : 'a' + i % 26);
  }
  write("text.txt", text);
}

void ProgramTest::TearDown() { std::filesystem::remove_all(dir); }

void ProgramTest::write(const std::string &name,
                        const std::string &content) const {
  std::ofstream(path(name), std::ios::binary) << content;
}

std::string ProgramTest::read(const std::string &name) const {
  std::ifstream file(path(name), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<nlohmann::json>
ProgramTest::readLog(const std::string &name) const {
  std::vector<nlohmann::json> lines;
  std::istringstream text(read(name));
  for (std::string line; std::getline(text, line);)
    lines.push_back(nlohmann::json::parse(line));
  std::erase_if(lines, [](const auto &line) { return !line.contains("loss"); });
  return lines;
}

std::string ProgramTest::readEnd(const std::string &name) const {
  const std::string text = read(name);
  const size_t before = text.rfind('\n', text.size() - 2);
  return nlohmann::json::parse(text.substr(before == text.npos ? 0 : before))
      .value("ended", "unknown");
}
