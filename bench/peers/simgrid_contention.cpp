//===- simgrid_contention.cpp - The same flows by SimGrid -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One case of bench/contention.cpp. Links have no latency, and neither TCP's
// window nor answers the other way count.
//
//===----------------------------------------------------------------------===//

#include <simgrid/s4u.hpp>

#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

namespace s4u = simgrid::s4u;

int main(int argc, char **argv) {
  s4u::Engine engine(&argc, argv);
  for (const char *setting :
       {"network/model:CM02", "network/crosstraffic:0",
        "network/latency-factor:1", "network/bandwidth-factor:1",
        "network/weight-S:0", "network/TCP-gamma:0", "surf/precision:1e-12",
        "maxmin/precision:1e-9"})
    s4u::Engine::set_config(setting);
  auto *zone = s4u::create_full_zone("all");
  size_t numLinks = 0, numFlows = 0;
  std::cin >> numLinks;
  std::vector<s4u::Link *> links;
  for (size_t i = 0; i != numLinks; ++i) {
    double capacity = 0;
    std::cin >> capacity;
    links.push_back(zone->create_link("l" + std::to_string(i), capacity)
                        ->set_latency(0)
                        ->seal());
  }
  std::cin >> numFlows;
  std::vector<double> ends(numFlows);
  struct Flow {
    s4u::Host *from, *to;
    double begin, bytes;
  };
  std::vector<Flow> flows;
  for (size_t number = 0; number != numFlows; ++number) {
    Flow flow{};
    size_t count = 0;
    std::cin >> flow.begin >> flow.bytes >> count;
    std::vector<s4u::LinkInRoute> route;
    for (size_t i = 0; i != count; ++i) {
      size_t link = 0;
      std::cin >> link;
      route.emplace_back(links[link]);
    }
    const std::string name = std::to_string(number);
    flow.from = zone->create_host("from" + name, 1e9)->seal();
    flow.to = zone->create_host("to" + name, 1e9)->seal();
    zone->add_route(flow.from->get_netpoint(), flow.to->get_netpoint(), nullptr,
                    nullptr, route, /*symmetrical=*/false);
    flows.push_back(flow);
  }
  zone->seal();
  for (size_t number = 0; number != numFlows; ++number)
    s4u::Actor::create(
        "flow" + std::to_string(number), flows[number].from, [&, number] {
          const Flow &flow = flows[number];
          s4u::this_actor::sleep_until(flow.begin);
          s4u::Comm::sendto(flow.from, flow.to, uint64_t(flow.bytes));
          ends[number] = s4u::Engine::get_clock();
        });
  engine.run();
  for (double end : ends)
    std::printf("%.12f ", end);
  std::printf("\n");
  return 0;
}
