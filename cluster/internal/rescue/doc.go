// Package rescue is what keeps a cluster recoverable: fetching a backup, restoring etcd
// from a snapshot on all its servers, and the ages of certificates.
package rescue
