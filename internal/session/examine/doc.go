// Package examine has the commands that look for the cause of a failure: cluster:doctor, and
// cluster:support, which packs what a helper needs.
package examine
