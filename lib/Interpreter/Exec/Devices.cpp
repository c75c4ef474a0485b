//===- Devices.cpp - The memory of all ranks --------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Devices.h"

#include "Elements.h"

#include "optimus/Dialect/Optimus/IR/ElementBytes.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"
#include "optimus/Interpreter/Interpreter.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::exec;

Devices::Devices(func::FuncOp function, const optimus::Ranks &ranks)
    : function(function), ranks(ranks), order(function) {}

//===----------------------------------------------------------------------===//
// Where buffers lie
//===----------------------------------------------------------------------===//

int64_t Devices::evaluate(const RankNumber &number, int64_t rank) const {
  int64_t value = number.constant;
  if (number.axes) {
    std::vector<int> axes;
    for (Attribute axis : number.axes)
      axes.push_back(*ranks.getMesh().findAxis(cast<StringAttr>(axis).str()));
    value += number.scale * ranks.getMesh().combinedIndex(rank, axes);
  }
  if (number.least)
    value = std::max(value, *number.least);
  if (number.most)
    value = std::min(value, *number.most);
  return value;
}

Memory &Devices::getMemory(Value base, int64_t rank) {
  std::vector<Memory> &parts = memories[base];
  auto type = cast<MemRefType>(base.getType());
  if (parts.empty())
    parts.assign(ranks.getNumRanks(), Memory(optimus::getBytes(type)));
  return parts[rank];
}

int32_t Devices::getBufferNumber(Value buffer) {
  auto [known, isNew] = bufferNumbers.try_emplace(buffer, buffers.size());
  if (isNew)
    buffers.push_back(buffer);
  return known->second;
}

Place Devices::getPlace(Value buffer, int64_t rank) {
  auto type = cast<MemRefType>(buffer.getType());
  Place place{nullptr, 0, type.getNumElements(), type.getElementType(), 0};
  while (auto view = buffer.getDefiningOp<BufferViewOpInterface>()) {
    place.offset += evaluate(view.getByteOffset(), rank);
    SmallVector<Value, 2> viewed = view.getViewedBuffers();
    std::optional<RankChoice> choice = view.getChoice();
    bool isOther =
        choice && ranks.getMesh().coordinate(
                      rank, *ranks.getMesh().findAxis(choice->axis.str())) !=
                      choice->index;
    buffer = viewed[isOther];
  }
  place.buffer = getBufferNumber(buffer);
  if (auto slot = buffer.getDefiningOp<ArenaSlotOp>()) {
    place.offset += slot.getOffset();
    buffer = slot.getArena();
  }
  place.memory = &getMemory(buffer, rank);
  return place;
}

bool Devices::mayWrite(Value buffer) {
  auto argument = dyn_cast<BlockArgument>(buffer);
  auto access = argument ? function.getArgAttrOfType<StringAttr>(
                               argument.getArgNumber(), ExecDialect::kAccess)
                         : StringAttr();
  return !access || access != ExecDialect::kAccessRead;
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

Operand::Operand(Devices &devices, const Access &access, int64_t rank)
    : devices(&devices), access(access), rank(rank),
      place(devices.getPlace(access.operand->get(), rank)) {}

bool Operand::isAt(const Operand &other) const {
  return place.memory == other.place.memory &&
         place.offset == other.place.offset;
}

bool Operand::isDeclared(int64_t element) const {
  if (access.cols == 0)
    return true;
  if (access.rows == 1)
    return element < access.cols;
  return element / access.ld < access.rows && element % access.ld < access.cols;
}

/// The cells of an element.
static MutableArrayRef<Cell> getCells(const Place &place, int64_t element) {
  int64_t size = place.elementType.getIntOrFloatBitWidth() / 8;
  int64_t first = (place.offset + element * size) / Memory::kCellBytes;
  return MutableArrayRef<Cell>(place.memory->cells)
      .slice(first, size / Memory::kCellBytes);
}

static char *getBytes(const Place &place, int64_t element) {
  int64_t size = place.elementType.getIntOrFloatBitWidth() / 8;
  return place.memory->bytes.data() + place.offset + element * size;
}

double Operand::read(int64_t element) const {
  if (element < 0 || element >= place.extent) {
    devices->tell(*this, "reads", element, "which it does not have");
    return 0;
  }
  devices->noteRead(*this, element);
  return loadElement(place.elementType, getBytes(place, element));
}

void Operand::write(int64_t element, double value) const {
  if (element < 0 || element >= place.extent)
    return devices->tell(*this, "writes", element, "which it does not have");
  devices->noteWrite(*this, element);
  storeElement(place.elementType, value, getBytes(place, element));
}

std::vector<double> Operand::readMatrix(int64_t rows, int64_t cols, int64_t ld,
                                        bool isTransposed) const {
  std::vector<double> values(rows * cols);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t col = 0; col < cols; ++col)
      values[row * cols + col] =
          read(isTransposed ? col * ld + row : row * ld + col);
  return values;
}

void Operand::writeMatrix(int64_t rows, int64_t cols, int64_t ld,
                          ArrayRef<double> values) const {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t col = 0; col < cols; ++col)
      write(row * ld + col, values[row * cols + col]);
}

//===----------------------------------------------------------------------===//
// Who touched them
//===----------------------------------------------------------------------===//

void Devices::noteRead(const Operand &operand, int64_t element) {
  if (hasFailed)
    return;
  auto tellRead = [&](const Twine &what, int32_t other = Cell::kNobody) {
    tell(operand, "reads", element, what, other);
  };
  for (Cell &cell : getCells(operand.place, element)) {
    if (cell.writer == Cell::kNobody)
      return tellRead("which no command has written");
    if (!operand.access.reads && cell.writer != current)
      return tellRead("but is declared to write it only");
    if (!operand.isDeclared(element))
      return tellRead("outside the regions that it declares to read");
    if (cell.buffer != operand.place.buffer)
      return tellRead("written last as " + describeBuffer(cell.buffer) + " by ",
                      cell.writer);
    if (cell.writer >= 0 && !order.isDoneBefore(cell.writer, current))
      return tellRead("without waiting for its writer, ", cell.writer);
    if (order.isDoneInOrder(current))
      cell.reader = current;
    else if (cell.otherReaders.empty() || cell.otherReaders.back() != current)
      cell.otherReaders.push_back(current);
  }
}

void Devices::noteWrite(const Operand &operand, int64_t element) {
  if (hasFailed)
    return;
  auto tellWrite = [&](const Twine &what, int32_t other = Cell::kNobody) {
    tell(operand, "writes", element, what, other);
  };
  if (!operand.access.writes)
    return tellWrite("but is declared to read it only");
  if (!operand.isDeclared(element))
    return tellWrite("outside the regions that it declares to write");
  if (!mayWrite(buffers[operand.place.buffer]))
    return tellWrite("which the function may only read");
  for (Cell &cell : getCells(operand.place, element)) {
    if (cell.writer >= 0 && !order.isDoneBefore(cell.writer, current))
      return tellWrite("without waiting for its other writer, ", cell.writer);
    if (cell.reader >= 0 && !order.isDoneBefore(cell.reader, current))
      return tellWrite("without waiting for its reader, ", cell.reader);
    for (int32_t reader : cell.otherReaders)
      if (!order.isDoneBefore(reader, current))
        return tellWrite("without waiting for its reader, ", reader);
    cell.writer = current;
    cell.buffer = operand.place.buffer;
    cell.reader = Cell::kNobody;
    cell.otherReaders.clear();
  }
}

std::string Devices::describeCommand(int32_t number) const {
  if (number == Cell::kCaller)
    return "the caller";
  CommandOpInterface command = order.getCommand(number);
  std::string text = "command " +
                     std::to_string(command.getCommandId().value_or(number)) +
                     ", " + command->getName().getStringRef().str();
  std::string origin = optimus::describeLocation(command.getLoc());
  return origin.empty() ? text : text + " of " + origin;
}

std::string Devices::describeBuffer(int32_t number) const {
  Value buffer = buffers[number];
  if (auto argument = dyn_cast<BlockArgument>(buffer))
    return "argument " +
           optimus::getArgumentName(function, argument.getArgNumber());
  Operation *op = buffer.getDefiningOp();
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << "the buffer of";
  for (StringRef name : {"category", "name"})
    if (auto part = op->getAttrOfType<StringAttr>(name))
      stream << ' ' << part.getValue();
  if (auto values = op->getAttrOfType<ArrayAttr>("values"))
    for (Attribute value : values)
      stream << " '" << cast<StringAttr>(value).getValue() << '\'';
  return text;
}

void Devices::tell(const Operand &operand, StringRef verb, int64_t element,
                   const Twine &what, int32_t other) {
  if (std::exchange(hasFailed, true))
    return;
  CommandOpInterface command = order.getCommand(current);
  InFlightDiagnostic error = command.emitOpError();
  error << "on " << ranks.describe(operand.rank) << ": "
        << describeCommand(current) << ", " << verb << " element " << element
        << " of " << describeBuffer(operand.place.buffer) << ", " << what;
  if (other == Cell::kNobody)
    return;
  error << describeCommand(other);
  if (other >= 0)
    error.attachNote(order.getCommand(other).getLoc()) << "the other command";
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

void Devices::setArgument(unsigned argument, int64_t rank,
                          ArrayRef<double> values) {
  Place place = getPlace(function.getArgument(argument), rank);
  for (auto [element, value] : llvm::enumerate(values)) {
    storeElement(place.elementType, value, getBytes(place, element));
    for (Cell &cell : getCells(place, element)) {
      cell.writer = Cell::kCaller;
      cell.buffer = place.buffer;
    }
  }
}

FailureOr<std::vector<double>> Devices::getArgument(unsigned argument,
                                                    int64_t rank) {
  Place place = getPlace(function.getArgument(argument), rank);
  std::vector<double> values;
  for (int64_t element = 0; element < place.extent; ++element) {
    for (const Cell &cell : getCells(place, element))
      if (cell.writer == Cell::kNobody)
        return function.emitError("@")
               << function.getName() << " on " << ranks.describe(rank)
               << ": leaves element " << element << " of "
               << describeBuffer(place.buffer) << " unwritten";
    values.push_back(loadElement(place.elementType, getBytes(place, element)));
  }
  return values;
}

LogicalResult Devices::execute(CommandOpInterface command) {
  auto model =
      dyn_cast<InterpretableCommandOpInterface>(command.getOperation());
  if (!model)
    return command.emitOpError("cannot be interpreted");
  current = order.getNumber(command);
  accesses = command.getAccesses();
  return failure(failed(model.execute(*this)) || hasFailed);
}

Operand Devices::getOperand(OpOperand &operand, int64_t rank) {
  for (const Access &access : accesses)
    if (access.operand == &operand)
      return Operand(*this, access, rank);
  llvm_unreachable("a command says of each buffer how it touches it");
}

std::optional<Operand> Devices::getOperand(MutableOperandRange range,
                                           int64_t rank) {
  if (range.empty())
    return std::nullopt;
  return getOperand(*range.begin(), rank);
}
