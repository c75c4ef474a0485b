//===- Requests.cpp - Compilations without a start --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Requests.h"

#include "Flags.h"

#include "optimus/Tool/Tool.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace mlir;
using namespace mlir::optimus;
namespace json = llvm::json;

namespace {

struct Request {
  std::vector<std::string> arguments;
  std::string input;
  int64_t nice = 0;
};

bool fromJSON(const json::Value &value, Request &request, json::Path path) {
  json::ObjectMapper mapper(value, path);
  return mapper && mapper.map("arguments", request.arguments) &&
         mapper.map("input", request.input) &&
         mapper.mapOptional("nice", request.nice);
}

/// Standard input, output and errors of a request, in memory.
class Streams {
public:
  Streams() {
    for (int &file : files)
      file = memfd_create(kTool.data(), MFD_CLOEXEC);
  }
  ~Streams() {
    for (int file : files)
      close(file);
  }
  Streams(const Streams &) = delete;
  Streams &operator=(const Streams &) = delete;

  bool begin(StringRef input) {
    while (!input.empty()) {
      const ssize_t some = write(files[0], input.data(), input.size());
      if (some < 0 && errno != EINTR)
        return false;
      input = input.drop_front(std::max<ssize_t>(some, 0));
    }
    return lseek(files[0], 0, SEEK_SET) == 0;
  }
  /// In the process of the request.
  bool enter() const {
    for (int number = 0; number != 3; ++number)
      if (dup2(files[number], number) < 0)
        return false;
    return true;
  }
  std::string read(int number) const {
    std::string text(lseek(files[number], 0, SEEK_END), '\0');
    const ssize_t length = pread(files[number], text.data(), text.size(), 0);
    text.resize(std::max<ssize_t>(length, 0));
    return json::fixUTF8(text);
  }

private:
  std::array<int, 3> files;
};

/// A failure of this process, or of one that has yet to become a compiler.
int failRequests(const Twine &what) {
  llvm::WithColor::error(llvm::errs(), kTool)
      << kRequests << ": " << what << "\n";
  return kBadInput;
}

int failBySystem(const Twine &what) {
  return failRequests(what + ": " + std::strerror(errno));
}

int compileOne(const Request &request,
               llvm::function_ref<int(int, char **)> compile) {
  // A niceness of -1 is no failure.
  errno = 0;
  if (request.nice != 0 && nice(static_cast<int>(request.nice)) == -1 &&
      errno != 0)
    return failBySystem("nice");
  std::vector<std::string> words = request.arguments;
  words.insert(words.begin(), kTool.str());
  std::vector<char *> argv;
  for (std::string &word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  return compile(static_cast<int>(words.size()), argv.data());
}

} // namespace

int mlir::optimus::answerRequests(
    llvm::function_ref<int(int argc, char **argv)> compile) {
  std::string line;
  for (int64_t number = 1; std::getline(std::cin, line); ++number) {
    llvm::Expected<Request> request = json::parse<Request>(line, "request");
    if (!request)
      return failRequests("line " + Twine(number) + ": " +
                          llvm::toString(request.takeError()));
    Streams streams;
    if (!streams.begin(request->input))
      return failBySystem("cannot keep a program");
    const pid_t child = fork();
    if (child < 0)
      return failBySystem("cannot start a process");
    if (child == 0)
      // Handlers of the end are those of any compilation.
      std::exit(streams.enter() ? compileOne(*request, compile)
                                : failBySystem("cannot redirect"));
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
      if (errno != EINTR)
        return failBySystem("cannot wait for a process");
    const int code =
        WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    llvm::outs() << json::Value(json::Object{{"code", code},
                                             {"output", streams.read(1)},
                                             {"errors", streams.read(2)}})
                 << "\n";
    llvm::outs().flush();
  }
  return kDone;
}
