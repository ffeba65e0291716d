// Package network is what carries packets between machines that fit in a test.
//
// A [Network] knows who answers at an address, gives addresses away by DHCP, and makes
// connections as TCP would, in this process. It also holds each [Cluster] that servers on
// it have formed, for as long as one of their disks is left.
package network
