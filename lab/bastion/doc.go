// Package bastion is the way from loopback into the lab's virtual network.
//
// It is two servers with one dialler: an SSH jump host that forwards TCP and runs
// nothing, and a SOCKS5 proxy for kubectl and browsers. Both listen on 127.0.0.1
// only and reach what the dialler reaches, which in the lab are the addresses of
// simulated machines; no name is ever resolved, no real network touched.
package bastion
