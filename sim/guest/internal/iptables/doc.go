// Package iptables is the packet filter, and what K3s leaves in it.
package iptables
