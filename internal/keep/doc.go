// Package keep writes files on this machine that must never be half there: keys,
// secrets, kubeconfigs, what the user will go on editing. A file is replaced in one move
// or stays as it was, also when the disk is full or the power goes; no symbolic link is
// followed; a secret is never where others could exchange it.
package keep
