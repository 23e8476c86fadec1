-- Rules say exactly what they bind. Those made before bound less than they showed: they go, and are asked for again.

DELETE FROM rules;
ALTER TABLE rules ADD COLUMN bound TEXT NOT NULL DEFAULT '';

-- What a rule for this very call is bound to, and words for what every rule about its tool is tied to.
ALTER TABLE asks ADD COLUMN exact TEXT NOT NULL DEFAULT '';
ALTER TABLE asks ADD COLUMN what TEXT NOT NULL DEFAULT '';
