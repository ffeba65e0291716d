// Package zones plays what cert-manager and external-dns do outside of a cluster: they change the
// records of a zone by signed updates (RFC 2136, 8945) or by the APIs of Cloudflare and Route 53,
// and get certificates by ACME (RFC 8555), whose authority reads those records.
//
// The servers are real ones, of a test or its user, on the loopback interface. Others are never
// asked: a cluster that is played must not change a zone that is not.
package zones
