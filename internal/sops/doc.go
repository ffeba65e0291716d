// Package sops reads single secrets from files that sops has encrypted for age and PGP keys.
//
// [Read] decrypts in memory, checks the file's authentication code as sops does, and returns
// one value. Nothing is written to disk, and nothing else of the file leaves the package.
//
// Finding and using private keys is left to sops' own packages age and pgp: the environment
// variables SOPS_AGE_KEY, SOPS_AGE_KEY_FILE and SOPS_AGE_KEY_CMD, the file
// sops/age/keys.txt in the user's configuration folder, SSH keys, and GnuPG with its agent. The
// rest of sops is not used, because it links the libraries of five clouds: 38 MB. What this
// package does instead (the form of the files, AES-GCM, the authentication code) follows
// sops 3.13.3: its packages aes and stores, and Tree.Decrypt.
package sops
