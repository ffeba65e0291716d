// Package site is the whole lab as one value: a simulated Proxmox VE host behind
// TLS, the network that its guests live on, the bastion that leads there, and the
// control planes that appear when guests start K3s.
//
// [Serve] runs it until its context ends, and says in the lab's folder how it is
// reached; package labctl is the other side of that, for everybody who uses a lab.
package site
