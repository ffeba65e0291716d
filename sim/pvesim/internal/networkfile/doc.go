// Package networkfile reads, checks and writes what /etc/network/interfaces says.
package networkfile
