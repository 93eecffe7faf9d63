// Package screen lays lines out for a terminal: no line is wider than it, and no
// picture is higher. It reads no clock and no environment.
package screen
