// Package rescue is what keeps a cluster's K3s recoverable: fetching a backup, restoring etcd
// from a snapshot on all its servers, and the ages of certificates.
package rescue
