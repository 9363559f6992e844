"""A client of org.bedplate.Agent1 by dbus-fast: introspects, reads, calls, and waits for a signal. One line of output a step."""

import asyncio
import sys

from dbus_fast.aio import MessageBus

NAME = "org.bedplate.Agent1"
PATH = "/org/bedplate/Agent1"


async def main(address: str) -> None:
    bus = await MessageBus(bus_address=address).connect()
    daemon = bus.get_proxy_object(NAME, PATH, await bus.introspect(NAME, PATH))
    agent = daemon.get_interface(NAME)
    properties = daemon.get_interface("org.freedesktop.DBus.Properties")
    changed = asyncio.get_running_loop().create_future()

    def hear(interface: str, values: dict, _invalidated: list) -> None:
        # `working` lasts from an event to the look at it.
        state = values["State"].value if interface == NAME and "State" in values else "working"
        if state != "working" and not changed.done():
            changed.set_result(state)

    properties.on_properties_changed(hear)
    print("state:", await agent.get_state())
    print("verdict:", await agent.get_verdict())
    print("last converged:", "known" if await agent.get_last_converged() > 0 else "never")
    # The bus takes messages in order: once this is answered, it passes signals on.
    print("plan:", (await agent.call_plan()).strip(), flush=True)
    print("changed to:", await asyncio.wait_for(changed, 30))


asyncio.run(main(sys.argv[1]))
