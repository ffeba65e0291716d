// Package image is disks as others publish them: the cloud images of Ubuntu and Debian,
// and the file system of a container's image.
package image
