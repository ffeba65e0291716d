// Package images says which container images a cluster's file needs, and for what.
package images
