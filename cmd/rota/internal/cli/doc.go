// Package cli is what all commands share: flags and settings, exit codes, tables and
// numbers in words, and the care that nothing secret is printed.
package cli
