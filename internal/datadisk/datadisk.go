// Package datadisk has the script that formats and mounts a machine's data disks. It runs over
// SSH on a running node, and at the first boot of a machine whose seed names disks.
package datadisk

import _ "embed" // disks.sh

// Script is disks.sh; the comment at its start describes its arguments. It is POSIX sh and
// must run as root.
//
//go:embed disks.sh
var Script string
