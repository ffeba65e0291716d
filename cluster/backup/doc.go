// Package backup is one file with all that it takes to restore a cluster of K3s, of kubeadm or of Talos machines: a snapshot of
// etcd, the token that opens it, or the authorities, which the others keep beside it, the settings
// of the servers, and the cluster's file. The file is encrypted to age recipients (age-encryption.org), and its content is never on a disk
// unencrypted, neither while it is written nor while it is read.
//
// [Write] streams a backup, [Open] reads it, and [Inspect] says what is in a snapshot:
// it checks etcd's own checksum, every page of the database, and that the token decrypts the
// authorities and the key of the Secrets that K3s keeps in it. It does not prove that Kubernetes
// accepts each object; only a restore does.
//
// # Why the token
//
// K3s stores the private keys of its authorities and the key of the Secrets in etcd, encrypted
// with the secret part of the server token (pkg/cluster/encrypt.go and storage.go of K3s). A
// snapshot without the token is useless, and a snapshot with it is the whole cluster.
package backup
