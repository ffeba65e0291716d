// Package labmodel chooses the lab's hardware for a cluster file: the smallest of the
// simulator's own models that fits, or a generated one.
//
// It covers hosts, cards, storages, bridges, memory and templates. External machines are not
// part of the lab.
package labmodel
