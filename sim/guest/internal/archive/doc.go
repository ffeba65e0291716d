// Package archive is what the archives of packages have: Ubuntu's, Debian's and NVIDIA's,
// with the versions, the files and the needs of those packages that a cluster asks for.
package archive
