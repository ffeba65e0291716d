// Package bastion connects loopback with the lab's virtual network.
//
// It has two servers with one dialler: an SSH jump host that forwards TCP and runs nothing,
// and a SOCKS5 proxy for kubectl and browsers. Both listen only on 127.0.0.1 and reach what
// the dialler reaches: in the lab, the addresses of simulated machines. They resolve no names
// and use no real network.
package bastion
