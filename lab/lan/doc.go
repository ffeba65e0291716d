// Package lan is the network of the lab's real guests: a switch, a gateway with a TCP/IP
// stack in this process, and as many ports as QEMU has network cards.
//
// Frames come and go over a stream socket for each card ([LAN.Plug]), so nobody needs
// rights, bridges or tap devices, and nothing of it is on this machine's own network. The
// lab reaches every guest ([LAN.Dial]), and guests reach each other. What they send to
// addresses elsewhere arrives at the gateway, which refuses it, unless [Options].Outward
// says how to connect: then it is NAT in user mode, for TCP and UDP.
//
// It is IPv4 only. Guests have their addresses from their seeds: there is no DHCP.
package lan
