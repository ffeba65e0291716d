// Package firstboot is what the first boot of a machine makes of it: its packages, files and
// keys, as a cloud-init seed on an ISO. It keeps the seeds that machines have, and knows
// which of those on a storage are ours.
package firstboot
