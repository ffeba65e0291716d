// Package datadisk holds the script that makes a machine's data disks usable. It is run
// over SSH on a node that lives, and at the first boot of a machine whose seed names
// disks.
package datadisk

import _ "embed" // disks.sh

// Script is disks.sh; its head says how it is called. It is POSIX sh and wants to be root.
//
//go:embed disks.sh
var Script string
