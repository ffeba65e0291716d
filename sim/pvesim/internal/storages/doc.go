// Package storages answers for storages and what is on them: volumes, uploads, downloads,
// backups and appliances.
package storages
