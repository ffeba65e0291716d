// Package lan is the network of the lab's real guests: a switch, a gateway with a TCP/IP
// stack in this process, and as many ports as QEMU has network cards.
//
// Frames use a stream socket for each card ([LAN.Plug]), so no privileges, bridges or tap
// devices are needed, and nothing appears on this machine's own network. The lab reaches every
// guest ([LAN.Dial]), and guests reach each other. The gateway refuses packets to other
// addresses, unless [Options].Outward says how to connect: then it does NAT in user mode, for
// TCP and UDP.
//
// A guest's further cards are in networks of their own, one for each bridge and VLAN of the
// host: there is no gateway in those.
//
// It is IPv4 only. Guests get their addresses from their seeds: there is no DHCP.
package lan
