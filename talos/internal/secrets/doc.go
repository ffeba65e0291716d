// Package secrets keeps the secrets of a cluster of Talos machines: its authorities, keys and tokens.
//
// They are random, every machine of the cluster has them or proves itself with them, and no machine
// gives them to a client that does not already have some of them. So they must be on the disk before the first
// machine gets its configuration, and this package has the one file of homelab that holds something that
// the world does not: NAME.secrets.age, beside cluster.yaml. It is encrypted by age, so that it may be in Git.
//
// # Who can decrypt it
//
// The recipients of the file (snapshots.recipients), and the owner of the secret of the cluster's API
// token, from which an identity is derived. The owner of a token is root on the machines' storage anyway, and with
// the token CI and a second machine need nothing else.
//
// # When it is lost
//
// A file that is missing or that nobody here can decrypt is written again from what a server of the cluster
// has, which needs the credentials of a talosconfig. Without them the cluster keeps running, and
// homelab refuses to change it.
//
// What one decrypts is the file secrets.yaml of Talos' own program, `talosctl gen config --with-secrets`.
package secrets
