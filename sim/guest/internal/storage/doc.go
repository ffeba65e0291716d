// Package storage is disks and file systems as a running system has them: formatted,
// mounted by /etc/fstab or by hand, plugged in and pulled out.
package storage
