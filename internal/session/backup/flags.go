package backup

import "github.com/cps-gpu/homelab/internal/session"

// BackupFlags are the flags of cluster:backup.
type BackupFlags struct {
	To        string `help:"FILE: where to write it; a folder gets a file with the time in its name; default: this folder"`
	Recipient string `help:"age1…,age1…: encrypt it to these public keys, too; default: k3s.snapshots.recipients of the file"`
}

// SourceFlags name a backup.
type SourceFlags struct {
	From     string `help:"FILE: the backup"`
	Identity string `help:"FILE: private keys of age, one of which decrypts the backup"`
}

// VerifyFlags are the flags of backup:verify.
type VerifyFlags struct {
	SourceFlags
	Start bool `help:"also start Kubernetes from the snapshot, on loopback of this machine, and have it read every object"`
}

// RestoreFlags are the flags of cluster:restore.
type RestoreFlags struct {
	SourceFlags
	session.ChangeFlags
	Snapshot string `help:"NAME: restore this snapshot of a server, instead of a backup"`
	Digest   string `help:"HEX: the backup's SHA-256, as cluster:backup printed it: take no other file"`
}

// CertsFlags are the flags of cluster:certs.
type CertsFlags struct {
	session.ChangeFlags
	Rotate bool `help:"make new certificates, on one node after the other"`
	Warn   int  `help:"90: end with exit code 2 if a certificate ends within this many days"`
}
