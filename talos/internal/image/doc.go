// Package image says from which image of Talos' image factory a machine boots.
//
// A Talos machine installs nothing by itself: what it needs beside Talos (the guest agent, NVIDIA's
// modules, tools for iSCSI) is in its image, as extensions. The list of them is a schematic. The factory
// names it by a hash of its text, so the address of an image is known without asking; the factory has to be given a
// schematic once before it builds images of it.
//
// The factory's checksums are for its paying customers. So an image is hashed when it is first seen, and the
// hash is kept in a file beside cluster.yaml, as package secrets keeps the secrets: hosts download
// nothing else from then on ([Pins]).
package image
