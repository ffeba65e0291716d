// Package access decides who may do what, and answers for people, tokens, groups, roles,
// realms and pools.
package access
