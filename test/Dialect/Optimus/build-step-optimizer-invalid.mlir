// RUN: optimus-opt %s --optimus-build-step=optimizer=sgd --verify-diagnostics

// expected-error @below {{unknown optimizer 'sgd'; known optimizers: adamw}}
module {}
