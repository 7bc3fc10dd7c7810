"""MPC programs: machines that send messages to addresses computed from their data.

N machines with s slots each; a machine and a slot make an address, machine·s + slot. In a round every machine may send
one word to one address from each of its slots (address −1: none), and no address may be sent to twice. What arrives is
there when the machine updates its registers: words in0, in1, … and bits got0, got1, …

`to_program` turns this into a program with a static network, the route that Theorem 5.1 of Back de Luca et al. 2025
takes, in two ways that need no knowledge of the addresses beforehand:

    route="sort"   2Ns more nodes: sort messages by address, twice; O(log² Ns) rounds
    route="grid"   (Ns)² more nodes, one for each sender and receiver: copy, filter, add up; O(log Ns) rounds

For destinations that are known when compiling, see `posattn.compile.programs.benes`.
"""

from posattn.compile.programs.mpc.machines import Exchange, Message, Mpc, fetch
from posattn.compile.programs.mpc.routes import to_program

__all__ = ["Exchange", "Message", "Mpc", "fetch", "to_program"]
