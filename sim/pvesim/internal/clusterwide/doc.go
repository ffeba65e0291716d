// Package clusterwide answers for what belongs to no node: lists of everything, options,
// high availability, metric servers, and sections that are kept and mean nothing here.
package clusterwide
