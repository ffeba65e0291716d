// Package databases checks a file's databases.
package databases

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
)

// checkBackup checks where databases are backed up, and what they begin with.
func checkBackup(c *decode.Checker, s *spec.Spec) {
	p, store := s.Platform.Postgres, s.Platform.Backup
	switch {
	case !p.Backup:
	case store == nil:
		c.Wrong(&p.Backup, "there is no bucket for backups of the databases", "write backup: with a bucket and its keys")
	case store.Insecure:
		c.Wrong(&p.Backup, "backups of databases go only to a service whose certificate is checked", "write backup.ca instead of backup.insecure")
	case s.Platform.TLS == nil || s.Platform.TLS.Source == spec.TLSSecret:
		c.Wrong(&p.Backup, "backups of databases need cert-manager: by its certificates the operator and its plugin know each other", "write tls: self-signed, or another of its sources that creates certificates")
	}
	owners := map[string]string{}
	for i := range p.Databases {
		d := &p.Databases[i]
		folder := cmp.Or(d.Archive, d.Name)
		if (d.Archive != "" || d.Restore != nil) && !p.Backup {
			c.Wrong(d, d.Name+" has a folder of backups, and databases are not backed up", "write postgres.backup: true")
		}
		if other := owners[folder]; other != "" {
			c.Wrong(d, fmt.Sprintf("%s and %s would write into the same folder %s", other, d.Name, folder), "write another archive")
		}
		owners[folder] = d.Name
		if d.Archive != "" && !decode.DNSLabel.MatchString(d.Archive) {
			c.Wrong(&d.Archive, fmt.Sprintf("%q cannot be a folder of backups", d.Archive), "write lower-case letters, digits and hyphens, e.g. "+d.Name+"-2")
		}
		if d.Restore != nil {
			checkRestore(c, d, folder)
		}
	}
}

func checkRestore(c *decode.Checker, d *spec.Database, folder string) {
	r := d.Restore
	switch {
	case r.Archive == "":
		c.Wrong(&r.Archive, "restore has no archive", "write archive: and the name of the database that was backed up, or its archive")
	case !decode.DNSLabel.MatchString(r.Archive):
		c.Wrong(&r.Archive, fmt.Sprintf("%q cannot be a folder of backups", r.Archive), "write the name of the database that was backed up, or its archive")
	case r.Archive == folder:
		c.Wrong(&r.Archive, fmt.Sprintf("%s would write its changes behind those that it is restored from", d.Name), "write a new folder beside restore, e.g. archive: "+d.Name+"-2")
	}
	if _, err := time.Parse(time.RFC3339, r.At); r.At != "" && err != nil {
		c.Wrong(&r.At, fmt.Sprintf("%q is not a point in time", r.At), "write it as 2026-11-29T12:00:00Z")
	}
}

// Check checks the databases of a file. Its nodes and storage are complete.
func Check(c *decode.Checker, s *spec.Spec) {
	checkHub(c, s)
	if s.Platform.Postgres == nil {
		return
	}
	checkBackup(c, s)
	for i := range s.Platform.Postgres.Databases {
		d := &s.Platform.Postgres.Databases[i]
		// PostgreSQL has databases and a role of these names; a name of CloudNativePG's has at most 50 letters.
		if !decode.DNSLabel.MatchString(d.Name) || d.Name[0] < 'a' || len(d.Name) > 50 || slices.Contains([]string{"postgres", "template0", "template1"}, d.Name) {
			c.Wrong(d, fmt.Sprintf("%q cannot be a database's name", d.Name), "write at most 50 lower-case letters, digits and hyphens, beginning with a letter; not postgres, template0 or template1")
		}
		if !decode.DNSLabel.MatchString(d.Namespace) {
			c.Wrong(&d.Namespace, fmt.Sprintf("%q cannot be a namespace", d.Namespace), "write lower-case letters, digits and hyphens, e.g. databases")
		}
		if q := s.Platform.QueueOf(d.Namespace).Name; q != "" && !s.Platform.HasPlatformPods(d.Namespace) {
			c.Wrong(&d.Namespace, fmt.Sprintf("the servers of %s would wait in the queue %s", d.Name, q), "write another namespace")
		}
		c.CheckRange(&d.Instances, "instances", 1, 9)
		if n := len(s.Nodes); n > 0 && d.Instances > n {
			c.Wrong(&d.Instances, fmt.Sprintf("%d servers of %s are requested, and there are %d nodes", d.Instances, d.Name, n), fmt.Sprintf("write %d or less: they are on different nodes", n))
		}
		if d.Size < spec.GiB {
			c.Wrong(&d.Size, fmt.Sprintf("%s is too little for a database", d.Size), "write 10GiB or more")
		}
		if scratch := s.Platform.Storage.Scratch; scratch != nil && d.StorageClass == scratch.Class {
			c.Wrong(&d.StorageClass, fmt.Sprintf("the database %s would be on scratch disks, whose contents may be lost", d.Name), "write a class with permanent volumes")
		}
	}
}

// checkHub checks which database the hub has. Its password is in a Secret beside the database, so the hub is there too.
func checkHub(c *decode.Checker, s *spec.Spec) {
	h := s.Platform.Hub
	if h == nil || h.Database.Name == "" {
		return
	}
	var names []string
	if s.Platform.Postgres != nil {
		for i := range s.Platform.Postgres.Databases {
			d := &s.Platform.Postgres.Databases[i]
			if names = append(names, d.Name); d.Name == h.Database.Name {
				if d.Namespace != h.Namespace {
					c.Wrong(&d.Namespace, fmt.Sprintf("the hub is in another namespace than its database %s", d.Name), "write "+h.Namespace)
				}
				return
			}
		}
	}
	at := &h.Database.Name
	if len(names) == 0 {
		c.Wrong(at, fmt.Sprintf("the file has no database %s", *at), fmt.Sprintf("write postgres: {databases: {%s: {namespace: %s}}}", *at, h.Namespace))
		return
	}
	c.Wrong(at, fmt.Sprintf("there is no database %q", *at), decode.OrSuggest(*at, names))
}
