"""Messages in, records and reports out, for every command.

``sources`` opens the files and pipes that a command line names; ``emit`` writes records in the format that was asked
for, ``outfile`` into a file that appears complete or not at all, ``rows`` facts about an instance as rows;
``reporting`` says what a verb did, what it found and what was refused; ``loaded`` lets memo indexes follow a bulk load.
"""
