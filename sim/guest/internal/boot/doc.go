// Package boot is the way of an Ubuntu or Debian guest from the power button to the end of
// cloud-init, and the settings of the kernel that are made on it.
package boot
