package main

import (
	"context"
	"database/sql"

	_ "modernc.org/sqlite"

	"github.com/rota-dev/rota"
)

// A database is a sink in SQLite. Any SQL database can do the same: one more table, or one more
// column, and a condition in the transaction that writes.
type database struct{ db *sql.DB }

func openSQLite(ctx context.Context, file string) (Sink, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)")
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, `
		CREATE TABLE IF NOT EXISTS owners (part TEXT PRIMARY KEY, token TEXT NOT NULL, session TEXT NOT NULL);
		CREATE TABLE IF NOT EXISTS saved (id INTEGER PRIMARY KEY, part TEXT NOT NULL, value BLOB NOT NULL)`)
	if err != nil {
		db.Close()
		return nil, err
	}
	return &database{db}, nil
}

func (d *database) Save(ctx context.Context, msg rota.Message) error {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	// No row changes if the condition does not hold.
	o := ownerOf(msg)
	done, err := tx.ExecContext(ctx, `
		INSERT INTO owners (part, token, session) VALUES (?, ?, ?)
		ON CONFLICT (part) DO UPDATE SET token = excluded.token, session = excluded.session
		WHERE excluded.token > token OR excluded.token = token AND excluded.session = session`,
		msg.Partition, o.digits(), o.Session)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		if err == nil {
			err = refused(msg)
		}
		return err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO saved (part, value) VALUES (?, ?)`, msg.Partition, msg.Value); err != nil {
		return err
	}
	return tx.Commit()
}

func (d *database) Close() error { return d.db.Close() }
