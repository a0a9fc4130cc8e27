-- A row that keeps late writes out by itself: the token is compared in the statement that writes, so there is nothing
-- between the check and the write. Run it with psql and the variables id, content and token.
--
-- One row is answered when the write was let in, none when a newer holder has written: then the writer has to stop.

INSERT INTO disks AS held (id, content, token)
VALUES (:'id', :'content', :token)
ON CONFLICT (id) DO UPDATE
    SET content = EXCLUDED.content, token = EXCLUDED.token
    WHERE held.token <= EXCLUDED.token
RETURNING token;
