// RUN: optimus-opt %s --optimus-build-step=optimizer=adam --verify-diagnostics

// expected-error @below {{unknown optimizer 'adam'; known optimizers: adamw, lamb, sgd}}
module {}
