// Package backup has the commands that back up, restore and check a cluster's K3s:
// cluster:backup, cluster:restore, backup:verify and cluster:certs.
package backup
