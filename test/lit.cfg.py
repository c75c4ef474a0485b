import os
import shutil
import subprocess

import lit.formats

config.name = "Optimus"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.optimus_binary_dir, "test")

config.environment["PATH"] = os.pathsep.join(
    [config.optimus_tools_dir, config.llvm_tools_dir, config.environment["PATH"]])
config.environment["PYTHONPATH"] = os.path.join(config.optimus_source_dir, "python")
# Predictions are of the built-in machine.
config.environment["OPTIMUS_MACHINE_CACHE"] = "none"
config.environment["FILECHECK_OPTS"] = "--enable-var-scope"
# The packaged LLVM has its assertions off; what is printed must parse again.
config.substitutions.append(("%optimus-opt", "optimus-opt --verify-roundtrip"))

# Traces of passes are compiled into builds with assertions alone.
if not subprocess.run([os.path.join(config.optimus_tools_dir, "optimus-opt"), "--debug-only=none", "--show-dialects"],
                      capture_output=True).returncode:
    config.available_features.add("asserts")

# NVIDIA's assembler, where optimus-compile finds it; no package of scripts/setup.
if shutil.which("ptxas") or shutil.which("ptxas", path="/usr/local/cuda/bin"):
    config.available_features.add("ptxas")
