// Package netplan brings network cards up as the files of netplan say, and shows them.
package netplan
