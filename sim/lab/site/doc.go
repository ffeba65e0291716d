// Package site is the whole lab: a simulated Proxmox VE host behind TLS, the guests' network,
// the bastion that leads there, and the control planes that start when guests start K3s.
//
// [Serve] runs it until its context ends, and writes to the lab's folder how to reach it;
// package labctl reads that for the lab's users.
package site
